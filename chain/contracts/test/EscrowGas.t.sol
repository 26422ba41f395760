// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {EscrowBase} from "./support/EscrowBase.sol";
import {IEscrow} from "../src/escrow/IEscrow.sol";
import {ReputationRegistry} from "../src/ReputationRegistry.sol";

/// @notice What each step costs; snapshots/ keeps it, and a change shows as a difference there.
contract EscrowGasTest is EscrowBase {
    function costs(string memory what) private {
        vm.snapshotGasLastCall("Escrow", what);
    }

    // Somebody had a payment before, as in most transactions of a life.
    function setUp() public override {
        super.setUp();
        usd.mint(treasury, 1);
        usd.mint(dead, 1);
    }

    function test_GasOfAJobThatIsApproved() public {
        bytes32 id = published();
        costs("publish");
        IEscrow.Selection memory s = selection(id);
        escrow.select(s, selectionSignature(s));
        costs("select");
        vm.prank(worker);
        escrow.activate(s, "");
        costs("activate, selected before");
        vm.prank(worker);
        escrow.submit(id, "d");
        costs("submit");
        vm.prank(approver);
        escrow.approve(id);
        costs("approve");
    }

    function test_GasOfAJobThatIsDisputed() public {
        bytes32 id = published();
        activate(selection(id));
        costs("activate");
        vm.prank(worker);
        escrow.submit(id, "d");
        vm.prank(approver);
        escrow.reject(id, IEscrow.Violation.Quality, "r");
        costs("reject");
        vm.prank(worker);
        escrow.dispute(id, "s");
        costs("dispute");
        vm.prank(arbitrator);
        escrow.rule(id, true, "r");
        costs("rule for the worker");
    }

    function test_GasOfAuthorizationsAndRelays() public {
        IEscrow.Terms memory t = terms();
        bytes32 id = escrow.jobIdOf(t);
        bytes memory money = signed(CREATOR_KEY, receiveDigest(creator, REWARD + CREATOR_BOND, START + 60, id));
        escrow.publishWithAuthorization(t, 0, START + 60, money);
        costs("publish with authorization");
        IEscrow.Selection memory s = selection(id);
        bytes memory chosen = selectionSignature(s);
        bytes memory bond =
            signed(WORKER_KEY, receiveDigest(worker, WORKER_BOND, START + 60, escrow.activationNonce(id, worker, 1)));
        escrow.activateWithAuthorization(s, chosen, 0, START + 60, bond);
        costs("activate with authorization");
        IEscrow.Call memory c = IEscrow.Call(worker, abi.encodeCall(IEscrow.submit, (id, "d")), 0, block.timestamp + 60);
        escrow.relay(c, signed(WORKER_KEY, callDigest(c, block.chainid, address(escrow))));
        costs("submit, relayed");
    }

    function test_GasOfEndings() public {
        bytes32 id = published();
        vm.prank(creator);
        escrow.cancel(id);
        costs("cancel");
        IEscrow.Terms memory t = terms();
        t.salt = 0;
        id = activated(t);
        vm.warp(t.deliveryDeadline);
        escrow.settle(id);
        costs("settle a missed delivery");
    }

    function test_GasOfIdentityAndReputation() public {
        vm.prank(other);
        identity.register("https://sidequest.example/agents/2/registration.json");
        vm.snapshotGasLastCall("Registries", "register");
        ReputationRegistry reputation = new ReputationRegistry(identity, escrow);
        bytes32 id = submitted();
        vm.prank(approver);
        escrow.approve(id);
        vm.prank(creator);
        reputation.giveFeedbackForJob(id, ReputationRegistry.Submission(1, 90, 0, "quality", "", "", "", "h"));
        vm.snapshotGasLastCall("Registries", "feedback for a job");
    }
}
