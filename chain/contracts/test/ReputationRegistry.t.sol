// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {EscrowBase} from "./support/EscrowBase.sol";
import {IERC721Errors} from "@openzeppelin/contracts/interfaces/draft-IERC6093.sol";
import {IEscrow} from "../src/escrow/IEscrow.sol";
import {ReputationRegistry} from "../src/ReputationRegistry.sol";

contract ReputationRegistryTest is EscrowBase {
    ReputationRegistry internal reputation;
    address[] internal creators;

    function setUp() public override {
        super.setUp();
        reputation = new ReputationRegistry(identity, escrow);
        creators.push(creator);
    }

    function give(address client, int128 value, uint8 decimals, string memory tag1, string memory tag2) internal {
        vm.prank(client);
        reputation.giveFeedback(1, value, decimals, tag1, tag2, "https://a.example", "ipfs://f", "h");
    }

    function submission(int128 value, uint8 decimals, string memory tag1, string memory tag2)
        internal
        pure
        returns (ReputationRegistry.Submission memory)
    {
        return ReputationRegistry.Submission(1, value, decimals, tag1, tag2, "https://a.example", "ipfs://f", "h");
    }

    function paidJob(uint256 salt) internal returns (bytes32 id) {
        IEscrow.Terms memory t = terms();
        (t.salt, t.reward) = (bytes32(salt), 1e6);
        id = submitted(t);
        vm.prank(approver);
        escrow.approve(id);
    }

    function givePaid(uint256 salt, int128 value, uint8 decimals, string memory tag1, string memory tag2) internal {
        bytes32 id = paidJob(salt);
        vm.prank(creator);
        reputation.giveFeedbackForJob(id, submission(value, decimals, tag1, tag2));
    }

    function summary(string memory tag1, string memory tag2, uint64 wantCount, int128 wantValue, uint8 wantDecimals)
        internal
        view
    {
        (uint64 count, int128 value, uint8 decimals) = reputation.getSummary(1, creators, tag1, tag2);
        eq(count, wantCount, "count");
        yes(value == wantValue, "value");
        eq(decimals, wantDecimals, "decimals");
    }

    function test_FeedbackIsKeptAndNumberedPerClient() public {
        vm.expectEmit();
        emit ReputationRegistry.NewFeedback(
            1, other, 1, -5, 1, "quality", "quality", "fast", "https://a.example", "ipfs://f", "h"
        );
        give(other, -5, 1, "quality", "fast");
        give(other, 100, 0, "", "");
        give(creator, 0, 0, "", "");
        eq(reputation.getLastIndex(1, other), 2, "last of the one");
        eq(reputation.getLastIndex(1, creator), 1, "last of the other");
        (int128 value, uint8 decimals, string memory tag1, string memory tag2, bool revoked) =
            reputation.readFeedback(1, other, 1);
        yes(value == -5 && decimals == 1 && !revoked, "entry");
        eq(tag1, "quality");
        eq(tag2, "fast");
        eq(reputation.readAllFeedback(1, other).length, 2, "all");
        address[] memory clients = reputation.getClients(1);
        eq(clients.length, 2, "clients");
        eq(clients[0], other, "first client");
        eq(reputation.getIdentityRegistry(), address(identity), "registry");
        eq(reputation.jobOf(1, other, 1), bytes32(0), "no job");
    }

    function test_UnpaidFeedbackDoesNotCount() public {
        give(creator, 100, 0, "", "");
        give(other, 100, 0, "", "");
        creators.push(other);
        summary("", "", 0, 0, 0);
    }

    function test_FeedbackOfThePayerOfACompletedJobCounts() public {
        bytes32 id = paidJob(1);
        vm.expectEmit();
        emit ReputationRegistry.FeedbackPaid(1, creator, 1, id);
        vm.prank(creator);
        reputation.giveFeedbackForJob(id, submission(90, 0, "quality", ""));
        yes(reputation.jobRated(id), "rated");
        eq(reputation.jobOf(1, creator, 1), id, "job");
        summary("", "", 1, 90, 0);
    }

    function test_AJobCountsOnce() public {
        bytes32 id = paidJob(1);
        vm.prank(creator);
        reputation.giveFeedbackForJob(id, submission(90, 0, "", ""));
        vm.prank(creator);
        vm.expectRevert(abi.encodeWithSelector(ReputationRegistry.JobRated.selector, id));
        reputation.giveFeedbackForJob(id, submission(90, 0, "", ""));
    }

    function refusesUnpaid(bytes32 id, address client, uint256 agentId) private {
        ReputationRegistry.Submission memory s = submission(90, 0, "", "");
        s.agentId = agentId;
        vm.prank(client);
        vm.expectRevert(abi.encodeWithSelector(ReputationRegistry.NotPaid.selector, id, client, agentId));
        reputation.giveFeedbackForJob(id, s);
    }

    function test_OnlyTheOneWhoPaidThatAgentForThatJobIsHeard() public {
        bytes32 id = paidJob(1);
        refusesUnpaid(id, other, 1);
        refusesUnpaid(id, approver, 1);
        vm.prank(other);
        identity.register();
        refusesUnpaid(id, creator, 2);
        refusesUnpaid(keccak256("no job"), creator, 1);
        refusesUnpaid(submitted(), creator, 1);
    }

    function test_AJobThatWasRefundedProvesNoPayment() public {
        bytes32 id = disputed(IEscrow.Violation.None);
        vm.prank(arbitrator);
        escrow.rule(id, false, 0);
        refusesUnpaid(id, creator, 1);
    }

    function test_TheAgentsOwnPeopleAreNotHeard() public {
        bytes memory call = abi.encodeCall(ReputationRegistry.giveFeedback, (1, 100, 0, "", "", "", "", bytes32(0)));
        vm.prank(worker);
        identity.setApprovalForAll(other, true);
        for (uint256 i = 0; i < 2; i++) {
            address who = i == 0 ? worker : other;
            vm.prank(who);
            vm.expectRevert(abi.encodeWithSelector(ReputationRegistry.OwnFeedback.selector, who, 1));
            (bool ok,) = address(reputation).call(call);
            ok;
        }
        vm.expectRevert(abi.encodeWithSelector(IERC721Errors.ERC721NonexistentToken.selector, 7));
        reputation.giveFeedback(7, 100, 0, "", "", "", "", 0);
    }

    function test_ValuesHaveBounds() public {
        give(other, 1e38, 18, "", "");
        give(other, -1e38, 0, "", "");
        vm.expectRevert(abi.encodeWithSelector(ReputationRegistry.ValueOutOfRange.selector, int128(1e38 + 1)));
        reputation.giveFeedback(1, 1e38 + 1, 0, "", "", "", "", 0);
        vm.expectRevert(abi.encodeWithSelector(ReputationRegistry.ValueOutOfRange.selector, int128(-1e38 - 1)));
        reputation.giveFeedback(1, -1e38 - 1, 0, "", "", "", "", 0);
        vm.expectRevert(abi.encodeWithSelector(ReputationRegistry.TooManyDecimals.selector, 19));
        reputation.giveFeedback(1, 1, 19, "", "", "", "", 0);
    }

    function test_SummariesAverageFilterAndUseTheMostFrequentDecimals() public {
        givePaid(1, 90, 0, "quality", "fast");
        givePaid(2, 805, 1, "quality", "");
        givePaid(3, -105, 1, "speed", "fast");
        summary("", "", 3, 533, 1); // (90 + 80.5 - 10.5) / 3 = 53.33
        summary("quality", "", 2, 85, 0); // 85.25, and of two equal counts the fewer decimals
        summary("", "fast", 2, 39, 0);
        summary("quality", "fast", 1, 90, 0);
        summary("none", "", 0, 0, 0);
        vm.expectRevert(abi.encodeWithSelector(ReputationRegistry.NoClients.selector));
        reputation.getSummary(1, new address[](0), "", "");
    }

    function test_RevokedFeedbackDoesNotCount() public {
        givePaid(1, 90, 0, "", "");
        givePaid(2, 10, 0, "", "");
        vm.expectEmit();
        emit ReputationRegistry.FeedbackRevoked(1, creator, 2);
        vm.prank(creator);
        reputation.revokeFeedback(1, 2);
        summary("", "", 1, 90, 0);
        (,,,, bool revoked) = reputation.readFeedback(1, creator, 2);
        yes(revoked, "revoked");
        vm.prank(creator);
        vm.expectRevert(abi.encodeWithSelector(ReputationRegistry.AlreadyRevoked.selector, 1, creator, 2));
        reputation.revokeFeedback(1, 2);
        vm.prank(other);
        vm.expectRevert(abi.encodeWithSelector(ReputationRegistry.UnknownFeedback.selector, 1, other, 1));
        reputation.revokeFeedback(1, 1);
        vm.expectRevert(abi.encodeWithSelector(ReputationRegistry.UnknownFeedback.selector, 1, creator, 0));
        reputation.readFeedback(1, creator, 0);
    }

    function test_AnyoneAnswersFeedbackEvenRevokedAndAnswersAreCounted() public {
        give(creator, 1, 0, "", "");
        vm.prank(creator);
        reputation.revokeFeedback(1, 1);
        vm.expectEmit();
        emit ReputationRegistry.ResponseAppended(1, creator, 1, worker, "ipfs://r", "h");
        vm.prank(worker);
        reputation.appendResponse(1, creator, 1, "ipfs://r", "h");
        vm.prank(worker);
        reputation.appendResponse(1, creator, 1, "ipfs://r2", "h");
        vm.prank(other);
        reputation.appendResponse(1, creator, 1, "ipfs://r3", "h");
        eq(reputation.getResponseCount(1, creator, 1, new address[](0)), 3, "all");
        address[] memory one = new address[](1);
        one[0] = worker;
        eq(reputation.getResponseCount(1, creator, 1, one), 2, "the worker's");
        one[0] = arbitrator;
        eq(reputation.getResponseCount(1, creator, 1, one), 0, "nobody's");
        vm.expectRevert(abi.encodeWithSelector(ReputationRegistry.UnknownFeedback.selector, 1, creator, 2));
        reputation.appendResponse(1, creator, 2, "", 0);
        vm.expectRevert(abi.encodeWithSelector(ReputationRegistry.UnknownFeedback.selector, 1, creator, 2));
        reputation.getResponseCount(1, creator, 2, one);
    }

    function testFuzz_OneValueIsItsOwnAverage(int128 value, uint8 decimals) public {
        value = int128(int256(within(uint256(int256(value)), 0, 2e38)) - 1e38);
        decimals = uint8(within(decimals, 0, 18));
        givePaid(1, value, decimals, "", "");
        summary("", "", 1, value, decimals);
    }
}
